# Compiled types of properties.py.

cimport cython

from amqp_router.protocol cimport flags as bits


@cython.locals(flags=cython.uint, flag=cython.uint, pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, kind=str)
cpdef dict decode_properties(bytes properties)

cpdef bytes encode_properties(values)
cpdef object headers_of(bytes properties)

@cython.locals(flags=cython.uint, start=Py_ssize_t)
cpdef tuple header_range(bytes properties)

cdef int _flags(bytes properties) except -1
cdef Py_ssize_t _skip_short_string(bytes properties, Py_ssize_t pos) except -1
