"""The program that reads a node and prints a record of it. It contains no expected values."""
