"""Graph: the measured step as ops and dependency edges, and one rule per file that finds them."""
