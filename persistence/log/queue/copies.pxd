cdef class Copies:
    cdef public bint mirrored
    cdef public unsigned long long visible_end
    cdef public bint follows
    cdef public unsigned long long stored_watermark
    cdef public unsigned long long history_start
    cdef public bint is_cleaned
    cdef public unsigned long long cleaned_at
    cdef public bint awaits_snapshot
    cdef public Shown shown


cdef class Shown:
    cdef list _ends
    cdef bint _is_cut_short
