"""The binding of the native core (`service/native`): finds and loads the library, declares its structures and functions.

Nothing else imports ctypes. The library is built by `service/native/build.py`; it needs no Python headers.
"""
