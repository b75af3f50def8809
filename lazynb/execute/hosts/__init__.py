"""Programs that run on several hosts together: the hosts agree before each of them is launched."""
