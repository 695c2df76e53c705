cdef class Slices:
    cdef public object node
    cdef public str peer
    cdef public long long units
    cdef public object steps
    cdef public bint waiting
    cdef public bint handed
    cdef public bint busy
    cpdef bint run(self) except -1
    cpdef hand_over(self)
