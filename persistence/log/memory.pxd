cdef class MemoryBudget:
    cdef public long long limit
    cdef public long long used
