cdef class Alarms:
    cdef object _in_slices
    cdef set _names
    cdef dict _blocked
    cdef public bint on
    cdef public object on_change
    cpdef void block(self, object connection)
