cimport cython

from amqp_router.protocol.output cimport Output


cdef class Writer:
    cdef public Output output
    cdef object _socket
    cdef public bint writable
    cdef object _rest
    cdef Py_ssize_t _rest_bytes
    cdef public bint sent
    cdef public long long send_oct
    cdef public long long send_cnt
    @cython.locals(output=Output, left=Py_ssize_t)
    cpdef bint flush(self) except -1
    cpdef void write(self, object data)
    cpdef bint is_inside_of_a_frame(self) except -1
    cpdef Py_ssize_t unsent_bytes(self) except -1
