# Compiled types of properties.py.

cimport cython

from amqp_router.protocol cimport flags as bits
from amqp_router.protocol.nested cimport end_of_nested


@cython.locals(flags=cython.uint, flag=cython.uint, pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, kind=str)
cpdef dict decode_properties(bytes properties, bint as_octets=*)

cpdef bytes encode_properties(values)
cpdef object headers_of(bytes properties)
cpdef dict outer_headers(bytes properties)

@cython.locals(flags=cython.uint, start=Py_ssize_t)
cpdef tuple header_range(bytes properties)

@cython.locals(d="const unsigned char*", size=Py_ssize_t, flags=cython.uint, bit=cython.uint, position=Py_ssize_t, start=Py_ssize_t, headers=Py_ssize_t, headers_end=Py_ssize_t, cut=Py_ssize_t, cut_end=Py_ssize_t, mode=int, table=Py_ssize_t, old=bytes, head=bytes)
cpdef tuple with_fields(bytes properties, bytes fields, bytes expiration)

cdef int _flags(bytes properties) except -1
cdef Py_ssize_t _skip_short_string(bytes properties, Py_ssize_t pos) except -1
