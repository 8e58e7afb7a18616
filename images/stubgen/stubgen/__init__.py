"""Stub libraries made from the symbols that a wheel's shared objects ask for.

Runs inside build stages: standard library plus binutils (nm, readelf, c++filt) and a C/C++ compiler. Works for any
architecture those tools work for; nothing here knows a library path of the build machine.
"""
