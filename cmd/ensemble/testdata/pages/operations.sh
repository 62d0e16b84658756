trained a
published a
