//! Damages to the files of ROCm in the packages.

use super::{Damage, edits::*};
use crate::check::{library, member};

pub(super) const FILES: &[Damage] = &[
    ("libhipfft is gone", |set| {
        drop_member(set, LIBRARIES, "lib/libhipfft.so.0");
    }),
    ("libMIOpen is gone", |set| {
        drop_member(set, LIBRARIES, "lib/libMIOpen.so.1");
    }),
    ("libamdhip64 is gone", |set| {
        drop_member(set, CORE, "lib/libamdhip64.so.7");
    }),
    ("libroctx64 is gone", |set| {
        drop_member(set, CORE, "lib/libroctx64.so.4");
    }),
    ("rocgdb is gone", |set| drop_member(set, CORE, "bin/rocgdb")),
    ("amdllvm is gone", |set| {
        drop_member(set, CORE, "bin/amdllvm");
    }),
    ("the plugins of the profiler are gone", |set| {
        edit(set, PROFILER, |it| {
            it.retain(|it| !it.0.contains("librocprof-sys"));
        });
    }),
    ("a program has no execute bits", |set| {
        mode(set, CORE, "bin/clang-22", 0o100_644);
    }),
    ("a script has no execute bits", |set| {
        mode(set, CORE, "bin/hipconfig", 0o100_644);
    }),
    ("a header has execute bits", |set| {
        mode(set, CORE, "hip_runtime.h", 0o100_755);
    }),
    ("a header is gone", |set| {
        drop_member(set, CORE, "hip_runtime.h");
    }),
    ("a header is another", |set| {
        bytes(set, CORE, "hip_runtime.h", |it| it[0] ^= 1);
    }),
    ("debug files come along", |set| {
        extra(set, CORE, "_rocm_sdk_core/lib/a.debug", b"1");
    }),
    ("a library of zero bytes", |set| {
        bytes(set, CORE, "lib/libhiprtc.so.7", Vec::clear);
    }),
    ("a library is cut off", |set| {
        bytes(set, CORE, "lib/libhiprtc.so.7", |it| it.truncate(1000));
    }),
    ("PT_DYNAMIC is none", |set| {
        bytes(set, CORE, "lib/libhiprtc.so.7", |it| {
            segment(it, 2, |it| it[0] = 0);
        });
    }),
    ("PT_DYNAMIC is elsewhere", |set| {
        bytes(set, CORE, "lib/libhiprtc.so.7", |it| {
            segment(it, 2, |it| it[18] ^= 0x40);
        });
    }),
    ("PT_LOAD cannot run", |set| {
        bytes(set, CORE, "bin/clang-22", |it| {
            segment(it, 1, |it| it[4] &= !1);
        });
    }),
    ("a byte of code is another", |set| {
        bytes(set, CORE, "lib/libhiprtc.so.7", |it| {
            let at = it.iter().rposition(|byte| *byte != 0).unwrap();
            it[at] ^= 0x40;
        });
    }),
    ("a library needs what no package has", |set| {
        put(
            set,
            "libnew.so.1",
            &library("libnew.so.1")
                .needs("libnuma.so.1")
                .rpath("$ORIGIN"),
        );
    }),
    ("a library has another SONAME", |set| {
        put(set, "libnew.so.1", &library("libold.so.1").rpath("$ORIGIN"));
    }),
    ("a run path is absolute", |set| {
        put(
            set,
            "libnew.so.1",
            &library("libnew.so.1").rpath("/opt/rocm/lib"),
        );
    }),
    ("a library needs a new glibc", |set| {
        put(
            set,
            "libnew.so.1",
            &library("libnew.so.1").needs_version("libc.so.6", "GLIBC_2.40"),
        );
    }),
];

pub(super) const DEVICES: &[Damage] = &[
    ("only the code for xnack+ is left", |set| {
        drop_device(
            set,
            &[
                "blas_lib_gfx942.kpack",
                "_gfx942.co",
                "_gfx942.dat",
                "-gfx942.hsaco",
            ],
        );
    }),
    ("an archive is called otherwise", |set| {
        edit(set, DEVICE, |it| {
            let path = &mut member(it, "rccl_lib_gfx942.kpack").0;
            *path = path.replace("rccl_lib_", "rccl_");
            links(it, |it| {
                for link in it {
                    let text = link.to_string().replace("rccl_lib_gfx942", "rccl_gfx942");
                    *link = serde_json::from_str(&text).unwrap();
                }
            });
        });
    }),
    ("an archive is cut off", |set| {
        bytes(set, DEVICE, "rccl_lib_gfx942.kpack", |it| it.truncate(9000));
    }),
    ("a row of .devel_links is gone", |set| {
        edit(set, DEVICE, |it| links(it, |it| drop(it.pop())));
    }),
    ("a marker leads elsewhere", |set| {
        bytes(set, LIBRARIES, "librccl.so.1", |it| {
            let at = it.windows(4).position(|it| it == b"HIPK").unwrap();
            it[at + 4] = 2;
        });
    }),
    ("device code is in a host wheel", |set| {
        extra(
            set,
            LIBRARIES,
            "_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co",
            b"1",
        );
    }),
    ("a byte of device code is another", |set| {
        bytes(set, DEVICE, "_gfx942.dat", |it| it[0] ^= 1);
    }),
];

pub(super) const TREES: &[Damage] = &[
    ("the tree is cut off", |set| {
        bytes(set, DEVEL, "_devel.tar", |it| it.truncate(20_000));
    }),
    ("hip-config.cmake is gone", |set| {
        tree(set, |_, path, _| !path.ends_with("hip-config.cmake"));
    }),
    ("a byte of the tree is another", |set| {
        tree(set, |_, path, bytes| {
            if path.ends_with("rocprim-config.cmake") {
                bytes[0] ^= 1;
            }
            true
        });
    }),
    ("the manifest counts wrong", |set| {
        swap(
            set,
            DEVEL,
            "_devel_manifest.json",
            "\"files\": ",
            "\"files\": 1",
        );
    }),
];
