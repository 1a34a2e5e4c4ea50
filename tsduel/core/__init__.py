"""What every stage stands on: run directory, files, errors, the tables of every seam."""
