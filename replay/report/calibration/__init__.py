"""A calibration in words: fits with their errors and scores, what was refused, which samples do not fit."""
