"""What is run on a database or a package: one package each."""
