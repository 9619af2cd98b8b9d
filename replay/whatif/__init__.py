"""What-ifs: one question per file, each a function from a Graph or a Program to an edited Graph."""
