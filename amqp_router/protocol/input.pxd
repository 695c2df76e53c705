cimport cython

from amqp_router.protocol cimport constants
from amqp_router.protocol.frames cimport ContentScan

cdef int _MORE
cdef int _FRAME
cdef int _PUBLISH
cdef int _ACK
cdef int _TOO_LARGE
cdef int _BAD_END
cdef int _IRREGULAR
cdef Py_ssize_t _HELD_CONTENT
cdef Py_ssize_t _HEADER
cdef Py_ssize_t _OVERHEAD


cdef unsigned int _be32(const unsigned char* d, Py_ssize_t p) noexcept


cdef class Input:
    cdef public long long payload_max
    cdef public ContentScan scan
    cdef public bytes data
    cdef public Py_ssize_t position
    cdef public list chunks
    cdef public Py_ssize_t first
    cdef public Py_ssize_t later
    cdef public Py_ssize_t need
    cdef public bint cut_content
    cdef public int kind
    cdef public long number
    cdef public long long size
    cdef public Py_ssize_t start
    cdef public Py_ssize_t end
    cdef public long class_id
    cdef public long method_id
    cpdef void add(self, bytes data)
    @cython.locals(data=bytes, d="const unsigned char*", position=Py_ssize_t, have=Py_ssize_t, need=Py_ssize_t, size="long long")
    cpdef int next(self) except -9
    @cython.locals(d="const unsigned char*", kind=int, start=Py_ssize_t, end=Py_ssize_t, method=int)
    cdef int _found(self, Py_ssize_t position, long long size) except -9
    @cython.locals(data=bytes, after=Py_ssize_t, begin=Py_ssize_t, need=Py_ssize_t, found=int)
    cpdef int content(self) except -9
    cdef int _next_again(self) except -9
    cpdef bytes payload(self)
    @cython.locals(begin=Py_ssize_t)
    cpdef bytes header(self)
    cdef int _next_chunk(self) except -9
    @cython.locals(missing=Py_ssize_t, parts=list, used=Py_ssize_t, chunk=bytes, count=Py_ssize_t)
    cdef int _join(self, Py_ssize_t size) except -9
    cpdef void trim(self)
    cpdef void drop(self)
    cpdef Py_ssize_t held_bytes(self)
