"""What comes in beside the text, as exact numbers: arguments, arrays, files, literals, shapes."""
