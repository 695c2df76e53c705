"""Keeps the arenas of Python's allocator that are free, compiled twin of ``arenas.py``; see there."""

cdef extern from "Python.h":
    ctypedef struct PyObjectArenaAllocator:
        void* ctx
        void* (*alloc)(void*, size_t) noexcept
        void (*free)(void*, void*, size_t) noexcept
    void PyObject_GetArenaAllocator(PyObjectArenaAllocator*)
    void PyObject_SetArenaAllocator(PyObjectArenaAllocator*)


# Stands at the beginning of a free arena.
cdef struct Kept:
    Kept* next
    size_t size


cdef PyObjectArenaAllocator _system
cdef bint _installed = False
cdef Kept* _first = NULL
cdef size_t _octets = 0


# Python calls both with the interpreter's lock, as its allocator needs that. They run inside that allocator, so
# they make no Python object and cannot fail.
#
# A kept arena need not be zeros: Python writes into each part of it before it reads there.
cdef void* _alloc(void* context, size_t size) noexcept:
    global _first, _octets
    cdef Kept* arena = _first
    if arena == NULL or arena.size != size:
        return _system.alloc(_system.ctx, size)
    _first = arena.next
    _octets -= size
    return arena


# What is free holds the link to the next one itself, as there is no memory to be asked for here.
cdef void _free(void* context, void* start, size_t size) noexcept:
    global _first, _octets
    cdef Kept* arena = <Kept*>start
    arena.next = _first
    arena.size = size
    _first = arena
    _octets += size


def install():
    global _installed
    cdef PyObjectArenaAllocator ours
    if not _installed:
        PyObject_GetArenaAllocator(&_system)
        ours.ctx = NULL
        ours.alloc = _alloc
        ours.free = _free
        PyObject_SetArenaAllocator(&ours)
        _installed = True
    return True


def kept_bytes():
    return _octets


def give_back():
    global _first, _octets
    cdef Kept* arena = _first
    cdef size_t size
    if arena == NULL:
        return 0
    size = arena.size
    _first = arena.next
    _octets -= size
    _system.free(_system.ctx, arena, size)
    return size
