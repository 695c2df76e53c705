# Compiled types of nested.py.

cimport cython

cdef bytes _PLAIN_SIZES


@cython.locals(d="const unsigned char*", sizes="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, inner=Py_ssize_t, packed=Py_ssize_t, tag=int, outer=list)
cpdef Py_ssize_t end_of_nested(bytes data, Py_ssize_t position, Py_ssize_t limit, bint named) except? -1


@cython.locals(d="const unsigned char*", sizes="const unsigned char*", end=Py_ssize_t, tag=int)
cpdef Py_ssize_t value_end(bytes data, Py_ssize_t position, Py_ssize_t limit) except? -1


@cython.locals(d="const unsigned char*", sizes="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, begun=Py_ssize_t, tag=int, is_named=bint)
cpdef bytes without_entry(bytes table, bytes name)


@cython.locals(d="const unsigned char*", sizes="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t, tag=int, is_named=bint)
cpdef tuple entry_range(bytes data, Py_ssize_t position, bytes name)


@cython.locals(d="const unsigned char*", sizes="const unsigned char*", p=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, tag=int, texts=list)
cpdef list long_strings(bytes array)


cdef Py_ssize_t _sized_end(const unsigned char* d, Py_ssize_t position, Py_ssize_t limit)
