"""Where a run happens: this machine, one behind SSH, or a rented one."""
