"""Columns, units, errors, plugin discovery: what every other package rests on."""
