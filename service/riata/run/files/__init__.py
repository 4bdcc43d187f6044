"""Files of labelled rows, learnt without a service."""
