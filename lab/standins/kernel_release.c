/* Stands in for a kernel of the node's own, of which a container has none: preloaded into every
   program (/etc/ld.so.preload) it gives RELEASE where uname(2) gives the host's. */

struct utsname {
    char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};

long syscall(long number, ...);

enum { SYS_uname = 63 }; /* x86-64 */

int uname(struct utsname *name)
{
    static const char release[] = RELEASE;
    long status = syscall(SYS_uname, name);

    for (unsigned i = 0; status == 0 && i < sizeof release; i++)
        name->release[i] = release[i];
    return (int)status;
}
