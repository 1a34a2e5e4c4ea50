"""The parts of a report; CONTENTS of plots/report.py has their titles and their order."""
