cimport cython

from amqp_router.protocol cimport constants
from amqp_router.protocol cimport flags as bits
from amqp_router.protocol.nested cimport end_of_nested

cdef int _COMPLETE
cdef int _MORE
cdef int _IRREGULAR
cdef Py_ssize_t _OVERHEAD
cdef Py_ssize_t _FIXED
cdef unsigned int _ODD_MODE
cdef unsigned long long _NO_EXPIRY
cdef int _DEPTH_MAX


cdef unsigned int _be32(const unsigned char* d, Py_ssize_t p) noexcept


cdef class ContentScan:
    cdef public long long payload_max
    cdef public Py_ssize_t end
    cdef public Py_ssize_t need
    cdef public Py_ssize_t header_size
    cdef public long long body_size
    cdef public long long frame_payload
    cdef public unsigned int flags
    cdef public bint persistent
    cdef public unsigned char priority
    cdef public unsigned long long expire_ms
    @cython.locals(d="const unsigned char*", size="long long", end=Py_ssize_t, body_size="long long")
    cpdef int scan(self, bytes data, Py_ssize_t position, Py_ssize_t limit, unsigned int channel) except? -1
    @cython.locals(d="const unsigned char*", limit=Py_ssize_t, p=Py_ssize_t, start=Py_ssize_t, flags="unsigned int", mode=int, bit="unsigned int")
    cpdef int header(self, bytes data, Py_ssize_t position) except? -1


@cython.locals(d="const unsigned char*", position=Py_ssize_t, number="unsigned long long", digit=int)
cdef unsigned long long _milliseconds(bytes data, Py_ssize_t start, Py_ssize_t end) except? 1


@cython.locals(d="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, tag=int)
cdef Py_ssize_t _end_of_table(bytes data, Py_ssize_t position, Py_ssize_t limit, int depth, bint named) except? -1


@cython.locals(d="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t)
cpdef tuple table_entries(bytes data, Py_ssize_t position, Py_ssize_t most)


@cython.locals(d="const unsigned char*", p=Py_ssize_t, tag=int)
cdef Py_ssize_t _end_of_value(bytes data, Py_ssize_t position) except? -1


@cython.locals(d="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
cpdef bytes first_value(bytes data, bytes name)


@cython.locals(d="const unsigned char*", p=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t)
cpdef list entry_names(bytes data)
