"""What a line and a whole backward are: plain frozen data, their names, their code, and where they do not hold."""
