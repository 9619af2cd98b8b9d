"""Program: the measured step lifted to templates that can be laid out again."""
