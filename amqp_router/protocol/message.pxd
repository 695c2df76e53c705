cimport cython

cdef unsigned char _PERSISTENT


@cython.no_gc
@cython.freelist(1024)
cdef class Message:
    cdef public object content
    cdef public bytes route
    cdef public unsigned long long offset
    cdef public unsigned long long body_size
    cdef public long long deadline_us
    cdef public unsigned int gap
    cdef public unsigned int header_size
    cdef public unsigned int frame_payload
    cdef public unsigned int frame_count
    cdef public unsigned short channel
    cdef public unsigned short delivery_count
    cdef public unsigned char flags
    cpdef unsigned long long size(self)
    cpdef Message copy(self)
    cpdef bytes properties(self)
    cpdef bytes body(self)
