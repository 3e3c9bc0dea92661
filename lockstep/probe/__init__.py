"""What is: one program that reads a node, and the record it leaves. Knows nothing of the plan."""
