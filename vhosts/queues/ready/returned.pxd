cimport cython

from amqp_router.protocol.message cimport Message

cdef int _BUCKET_BITS


cdef class Returned:
    cdef readonly Py_ssize_t count
    cdef readonly list first
    cdef unsigned long long _key
    cdef dict _others
    cdef list _keys
    @cython.locals(key="unsigned long long")
    cpdef add(self, Message message)
    @cython.locals(bucket=list)
    cdef list _bucket(self, unsigned long long key)
    cpdef Message lowest(self)
    cpdef take(self)
    cdef _left(self)
