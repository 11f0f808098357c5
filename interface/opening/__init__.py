"""Opens what was saved, and finds the devices that it runs on, without what only compiling needs."""
