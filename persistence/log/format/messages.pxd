cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.message cimport Extras, Message, read_message
from persistence.log.format.record cimport Batch
from persistence.log.format.sections cimport pack_sections

cdef unsigned long long _NO_EXPIRY
cdef unsigned long long _EXPIRE_MS_MAX


cdef unsigned long long _room(unsigned long long size) noexcept


cdef unsigned int le32(const unsigned char* d, Py_ssize_t p) noexcept


cdef class MessagesBuilder:
    cdef Buf _records
    cdef Buf _routes
    cdef Buf _properties
    cdef Buf _bodies
    cdef list _extras
    cdef unsigned long long _extras_size
    cdef bint _is_long
    cdef public unsigned long count
    cdef public unsigned long long size
    cdef public unsigned long long base
    cdef public long long base_ts
    cdef public long long max_ts
    cdef public bytes last_route
    cdef public list body_pieces
    cdef public Message message

    cpdef int begin(self, unsigned long long base, long long now_us) except -1
    @cython.locals(route=bytes, bodies=Buf)
    cpdef int add(self, Message message, unsigned long long offset, long long now_us) except -1
    @cython.locals(records=Buf, expire_ms=cython.ulonglong, left_us=cython.longlong)
    cdef int _record(self, Message message, unsigned long long offset, long long now_us,
                     unsigned long long body_end) except -1
    cdef unsigned long long _long_time(self, unsigned long long expire_ms) except? 0
    cpdef unsigned long long capacity(self)
    cpdef rest(self)
    cpdef Batch close(self, unsigned long long last, unsigned long epoch)
    cdef _close_extras(self, Batch batch)


@cython.final
cdef class Heap:
    cdef public bytes data
    cdef public Py_ssize_t at
    cdef public Py_ssize_t next
    cpdef void open(self, bytes data, Py_ssize_t at)


cdef class BatchView:
    cdef Buf _out
    cdef bytes _records
    cdef Heap _routes
    cdef Heap _properties
    cdef Heap _bodies
    cdef dict _extras
    cdef Py_ssize_t _records_at
    cdef Py_ssize_t _record_at
    cdef unsigned long _index
    cdef bytes _route
    cdef public unsigned int record_size
    cdef public unsigned long long base
    cdef public long long base_ts
    cdef public unsigned long long last
    cdef public unsigned long count

    cdef int _start(self, unsigned long long base, unsigned long long last, unsigned long count, long long base_ts,
                    unsigned int record_size) except -1
    cdef int _rewind(self) except -1
    @cython.locals(delta=cython.ulonglong, d="const unsigned char*", routes=Heap, properties=Heap, bodies=Heap,
                   at=Py_ssize_t, found=cython.ulonglong,
                   route_end=Py_ssize_t, properties_end=Py_ssize_t, body_end=Py_ssize_t, message=Message, expire_ms=cython.longlong,
                   high=cython.longlong)
    cpdef Message message_at(self, unsigned long long offset)
