"""The third stage: Ansible prepares the machine and builds the programs."""
