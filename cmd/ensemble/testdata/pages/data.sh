# nothing more
