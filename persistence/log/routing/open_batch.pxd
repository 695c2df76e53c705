# Compiled types of open_batch.py.

cimport cython

from amqp_router.protocol._buf cimport Buf
from persistence.log.format.record cimport Batch
from persistence.log.routing cimport events

cdef long long _U32_MAX
cdef unsigned int _HEADER_SIZE
cdef unsigned int _RECORDS_MAX


cdef class OpenBatch:
    cdef Buf _records
    cdef Buf _keys
    cdef bytes _key
    cdef public unsigned int count
    cdef public unsigned long long events
    cdef public long long base_ts
    @cython.locals(size="long long")
    cpdef bint is_full(self, Py_ssize_t key_size, long long now_us) except -1
    cpdef unsigned int begin_record(self, bytes key) except? 4294967295
    @cython.locals(records=Buf)
    cpdef end_record(self, unsigned long long events, long long now_us, unsigned int route, long long size,
                     unsigned int flags)
    @cython.locals(batch=Batch)
    cpdef Batch close(self, unsigned long long base, long long last_us)
    cpdef clear(self)
