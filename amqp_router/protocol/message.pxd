cimport cython

from amqp_router.protocol cimport constants, flags
from amqp_router.protocol._buf cimport Buf

cdef unsigned long long _NO_EXPIRY
cdef Py_ssize_t _JOINED_BYTES_MAX
cdef Py_ssize_t _FRAME_PAYLOAD_MAX
cdef Py_ssize_t _FIXED
cdef Py_ssize_t _PROPERTIES_AT
cdef Py_ssize_t _ENVELOPE


@cython.final
cdef class Extras:
    cdef public bytes source
    cdef public unsigned int source_partition
    cdef public unsigned int source_epoch
    cdef public unsigned long long source_offset
    cdef public long long due_us
    cdef public unsigned long long session
    cdef public unsigned int channel
    cdef public unsigned long long sequence


@cython.final
cdef class Message:
    cdef public object content
    cdef public bytes route
    cdef public Extras extras
    cdef public unsigned long long offset
    cdef public unsigned long long body_size
    cdef public long long deadline_us
    cdef public unsigned int gap
    cdef public unsigned int header_size
    cdef public unsigned int frame_payload
    cdef public unsigned int frame_count
    cdef public unsigned long long expire_ms
    cdef public unsigned short channel
    cdef public unsigned short delivery_count
    cdef public unsigned char flags
    cdef public unsigned char priority
    cpdef unsigned long long size(self)
    cpdef Message copy(self)
    cpdef take_content(self, Message other)
    cpdef bytes properties(self)
    cpdef int put_properties(self, Buf out) except -1
    @cython.locals(content=bytes, d="const unsigned char*", position=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
    cpdef int put_parts(self, Buf properties, Buf bodies) except -1
    cpdef bytes body(self)


cdef unsigned int _be32(const unsigned char* d, Py_ssize_t p) noexcept
@cython.locals(message=Message, properties_size=Py_ssize_t, size=Py_ssize_t, part=Py_ssize_t)
cpdef Message read_message(Buf out, bytes properties, Py_ssize_t properties_at, Py_ssize_t properties_end, bytes bodies, Py_ssize_t start, Py_ssize_t end)
cdef int _put_frame(Buf out, bytes bodies, Py_ssize_t start, Py_ssize_t end) except -1
