cdef class Tick:
    cdef public object call_soon
    cdef public object callback
    cdef public list queues
    cdef public list channels
    cdef public list outputs
    cdef public bint scheduled
    cdef public bint inside
    cdef public long long now_us
    cpdef void wake(self)
