"""The engine: executes a Graph and returns a Timeline."""
