"""The program that reads a node, and the record that it prints. It knows nothing about the plan."""
