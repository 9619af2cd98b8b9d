"""Op durations from shapes: pure functions of sizes and a device, vectorised, each equation in its docstring."""
