"""The reader of the text format of SVMlight and LIBSVM."""
