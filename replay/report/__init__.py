"""Reports: pure functions from a Graph and its Timeline to numbers, and from numbers to text and files."""
