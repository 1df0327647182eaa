"""What is tested, however it was written: something that runs forward, and pulls seeds back as often as it is asked."""
