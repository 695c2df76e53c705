# Compiled types of fields.py.

cimport cython

from amqp_router.protocol.nested cimport end_of_nested

cdef int _DEPTH_MAX


cdef class _Reader:
    cdef bytes data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end

    cdef dict table(self, int depth)
    cdef list array(self, int depth)
    cdef tuple field(self, int depth)
    cdef tuple rare_field(self, int tag)
    cdef bytes nested(self, bint named)
    cdef int need(self, Py_ssize_t count) except -1
    cdef int u8(self)
    @cython.locals(number=cython.longlong)
    cdef long long s32(self) except? -1
    @cython.locals(high=cython.longlong)
    cdef long long s64(self) except? -1
    cdef Py_ssize_t size(self) except -1
    cdef Py_ssize_t sized_end(self) except -1
    cdef bytes octets(self, Py_ssize_t count)
    cdef object signed(self, Py_ssize_t size)
    cdef object unsigned(self, Py_ssize_t size)


cdef unsigned int _u32(bytes data, Py_ssize_t pos)

cpdef tuple decode_table(bytes data, Py_ssize_t pos)
cpdef dict outer_table(bytes data, Py_ssize_t pos)
cpdef tuple outer_field(bytes data, Py_ssize_t pos)
cpdef tuple unnested(tuple field, int depth=*)
cpdef Py_ssize_t skip_table(bytes data, Py_ssize_t pos) except -1
cpdef bytes encode_table(table)

cdef int _put_u32(bytearray out, Py_ssize_t number) except -1
cdef int _put_table(bytearray out, table, int depth) except -1
@cython.locals(tag=str)
cdef int _put_field(bytearray out, tuple field, int depth) except -1
cdef bytes _rare_octets(str tag, value)
cdef int _put_array(bytearray out, list items, int depth) except -1
cdef Py_ssize_t _open(bytearray out, int depth) except -1
@cython.locals(size=Py_ssize_t)
cdef int _close(bytearray out, Py_ssize_t start) except -1
