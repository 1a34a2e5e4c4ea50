"""Where a run happens: this machine, one behind SSH, a rented one, or a pod."""
