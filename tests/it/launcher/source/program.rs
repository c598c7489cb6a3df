//! The launcher: an executable in the place of a link, which runs what the link pointed to.
//!
//! The tests compile it apart from the crate: no standard library, no libc, Linux on x86_64
//! only. It leaves arguments and environment as they are, and says why when it cannot go on.

#![no_std]
#![no_main]

use core::{
    arch::{asm, naked_asm},
    ffi::CStr,
    panic::PanicInfo,
    ptr,
};

/// The kernel's limit for a path, its closing NUL included.
const PATH_MAX: usize = 4096;
/// Two paths and the longest sentence about them.
const ROOM: usize = 2 * PATH_MAX + 512;
/// How many links in a row the kernel follows.
const MAX_LINKS: usize = 40;
const OWN_LINK: &CStr = c"/proc/self/exe";

/// Where packaging writes the target, relative to the launcher's directory and closed by a NUL.
#[repr(C)]
struct Slot {
    mark: [u8; 24],
    target: [u8; PATH_MAX],
}

static SLOT: Slot = Slot { mark: *b"rocwheel launcher runs: ", target: [0; PATH_MAX] };

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {run}", "ud2", run = sym run)
}

/// Everything, from the stack that the kernel prepared.
unsafe extern "C" fn run(stack: *const usize) -> ! {
    let start = unsafe { Start::read(stack) };
    let mut own = Text::new();
    let unreadable = own.read_link(OWN_LINK.as_ptr().cast()).err();
    if unreadable.is_some() && !own.be_named(start.name) {
        fail(&[b"could not determine path of main program"], unreadable);
    }
    let Some(directory) = own.directory() else {
        let said = b"could not find path component of main program: '";
        fail(&[said, own.bytes(), b"'"], unreadable);
    };
    let mut target = Text::new();
    let fits = target.push(directory) && target.push(b"/") && target.push_slot();
    let errno = if fits {
        target.resolve();
        if target.bytes() == own.bytes() {
            let why = b": the launcher would run itself";
            fail(&[b"could not exec ", target.bytes(), why], unreadable);
        }
        unsafe { start.execute(&mut target) }
    } else {
        Errno::NAME_TOO_LONG
    };
    let mut number = Text::new();
    let why = errno.describe(&mut number);
    let said = b"could not exec ";
    fail(&[said, target.bytes(), b": ", why], unreadable)
}

/// Says why on standard error, in one write so that parallel builds keep it whole.
fn fail(why: &[&[u8]], unreadable: Option<Errno>) -> ! {
    let mut said = Text::new();
    for part in why {
        said.push(part);
    }
    said.push(b"\n");
    if let Some(errno) = unreadable {
        let mut number = Text::new();
        said.push(b"hint: cannot read ");
        said.push(OWN_LINK.to_bytes());
        said.push(b" (");
        said.push(errno.describe(&mut number));
        said.push(b")");
        if errno.0 == Errno::NOT_FOUND.0 {
            said.push(b"; is /proc mounted?");
        }
        said.push(b"\n");
    }
    let said = said.bytes();
    let _ = unsafe { call(SYS_WRITE, 2, said.as_ptr() as usize, said.len()) };
    exit(1)
}

fn exit(code: usize) -> ! {
    loop {
        let _ = unsafe { call(SYS_EXIT_GROUP, code, 0, 0) };
    }
}

/// What the kernel hands to a new program.
struct Start {
    arguments: *const usize,
    environment: *const usize,
    /// The path that it was asked to run; empty when it does not tell.
    name: &'static [u8],
}

impl Start {
    unsafe fn read(stack: *const usize) -> Self {
        const AT_NULL: usize = 0;
        const AT_EXECFN: usize = 31;
        unsafe {
            let arguments = stack.add(1);
            let environment = arguments.add(*stack + 1);
            let mut at = environment;
            while *at != 0 {
                at = at.add(1);
            }
            let mut entry = at.add(1);
            let mut name: &[u8] = &[];
            while *entry != AT_NULL {
                if *entry == AT_EXECFN {
                    name = CStr::from_ptr(*entry.add(1) as *const _).to_bytes();
                }
                entry = entry.add(2);
            }
            Self { arguments, environment, name }
        }
    }

    /// Becomes that program; a return is a failure.
    unsafe fn execute(&self, path: &mut Text) -> Errno {
        let path = path.c_str() as usize;
        let arguments = self.arguments as usize;
        let environment = self.environment as usize;
        match unsafe { call(SYS_EXECVE, path, arguments, environment) } {
            Ok(_) => Errno(0),
            Err(errno) => errno,
        }
    }
}

/// A path, or words about one.
struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

impl Text {
    fn new() -> Self {
        Self { bytes: [0; ROOM], len: 0 }
    }

    #[inline(never)]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    fn c_str(&mut self) -> *const u8 {
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = 0;
        }
        self.bytes.as_ptr()
    }

    /// Whether there was room, a closing NUL included.
    #[inline(never)]
    fn push(&mut self, more: &[u8]) -> bool {
        let end = self.len.saturating_add(more.len());
        if end >= ROOM {
            return false;
        }
        // `copy_from_slice` would bring in the panics of `core`.
        let room = self.bytes.iter_mut().skip(self.len);
        room.zip(more).for_each(|(room, byte)| *room = *byte);
        self.len = end;
        true
    }

    fn push_slot(&mut self) -> bool {
        let before = self.len;
        for at in 0..PATH_MAX {
            // Volatile, because the compiler would go by the zeros that it sees.
            let byte = unsafe { ptr::read_volatile((&raw const SLOT.target[0]).add(at)) };
            if byte == 0 {
                return true;
            }
            if !self.push(&[byte]) {
                break;
            }
        }
        self.len = before;
        false
    }

    fn push_decimal(&mut self, number: usize) {
        let rest = number / 10;
        if rest > 0 {
            self.push_decimal(rest);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    fn directory(&self) -> Option<&[u8]> {
        let end = self.bytes().iter().rposition(|byte| *byte == b'/')?;
        self.bytes().get(..end)
    }

    /// Becomes what the link at `path` says.
    fn read_link(&mut self, path: *const u8) -> Result<(), Errno> {
        let room = self.bytes.as_mut_ptr() as usize;
        self.len = 0;
        let len = unsafe { call(SYS_READLINK, path as usize, room, PATH_MAX)? };
        if len >= PATH_MAX {
            return Err(Errno::NAME_TOO_LONG);
        }
        self.len = len;
        Ok(())
    }

    /// Becomes the path that `name` leads to, as far as that can be told without `/proc`.
    fn be_named(&mut self, name: &[u8]) -> bool {
        !name.is_empty() && self.push(name) && self.follow_links()
    }

    /// Follows the links that the last name of the path stands for. Links in its directory may
    /// stay: the kernel goes up from where they lead.
    fn follow_links(&mut self) -> bool {
        for _ in 0..=MAX_LINKS {
            let mut link = Text::new();
            if link.read_link(self.c_str()).is_err() {
                return true;
            }
            self.len = match (link.bytes().first(), self.directory()) {
                (Some(b'/'), _) | (_, None) => 0,
                (_, Some(directory)) => directory.len() + 1,
            };
            if !self.push(link.bytes()) {
                return false;
            }
        }
        false
    }

    /// Becomes free of links and dots, unless it leads nowhere.
    fn resolve(&mut self) {
        const O_PATH: usize = 0o10_000_000;
        const O_CLOEXEC: usize = 0o2_000_000;
        let path = self.c_str() as usize;
        let Ok(opened) = (unsafe { call(SYS_OPEN, path, O_PATH | O_CLOEXEC, 0) }) else {
            return;
        };
        let mut link = Text::new();
        link.push(b"/proc/self/fd/");
        link.push_decimal(opened);
        let mut real = Text::new();
        if real.read_link(link.c_str()).is_ok() {
            self.len = 0;
            self.push(real.bytes());
        } else {
            self.follow_links();
        }
    }
}

/// A failed system call.
#[derive(Clone, Copy)]
struct Errno(usize);

impl Errno {
    const NOT_FOUND: Self = Self(2);
    const NAME_TOO_LONG: Self = Self(36);

    fn describe(self, number: &mut Text) -> &[u8] {
        if let Some((_, words)) = WORDS.iter().find(|(errno, _)| *errno == self.0) {
            return words;
        }
        number.push(b"errno ");
        number.push_decimal(self.0);
        number.bytes()
    }
}

/// The C library's words for what `execve` and `readlink` answer.
static WORDS: [(usize, &[u8]); 17] = [
    (1, b"Operation not permitted"),
    (2, b"No such file or directory"),
    (5, b"Input/output error"),
    (7, b"Argument list too long"),
    (8, b"Exec format error"),
    (11, b"Resource temporarily unavailable"),
    (12, b"Cannot allocate memory"),
    (13, b"Permission denied"),
    (20, b"Not a directory"),
    (22, b"Invalid argument"),
    (23, b"Too many open files in system"),
    (24, b"Too many open files"),
    (26, b"Text file busy"),
    (36, b"File name too long"),
    (40, b"Too many levels of symbolic links"),
    (80, b"Accessing a corrupted shared library"),
    (116, b"Stale file handle"),
];

const SYS_WRITE: usize = 1;
const SYS_OPEN: usize = 2;
const SYS_EXECVE: usize = 59;
const SYS_READLINK: usize = 89;
const SYS_EXIT_GROUP: usize = 231;

unsafe fn call(number: usize, a: usize, b: usize, c: usize) -> Result<usize, Errno> {
    let answer: isize;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if answer < 0 { Err(Errno(answer.unsigned_abs())) } else { Ok(answer as usize) }
}

/// Required, and never linked: a panic anywhere would need more of `core` than links here.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    exit(1)
}

// The compiler expects these four of a C library, for what it fills, copies, compares and measures.

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memset() {
    naked_asm!("mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret")
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy() {
    naked_asm!("mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret")
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp() {
    naked_asm!("mov rcx, rdx", "xor eax, eax", "repe cmpsb", "setne al", "ret")
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen() {
    naked_asm!(
        "xor eax, eax",
        "2: cmp byte ptr [rdi + rax], 0",
        "je 3f",
        "inc rax",
        "jmp 2b",
        "3: ret"
    )
}
