cdef class Saving:
    cdef public list held
    cdef unsigned long long _end
