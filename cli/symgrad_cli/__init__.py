"""The command line of symgrad: one verb a file, no mathematics."""
