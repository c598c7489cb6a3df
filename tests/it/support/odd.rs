//! What stands beside the odd set: wheels of others.

use rocwheel_test_files::linker::SharedObject;

use crate::support::prelude::*;

/// Wheels of other projects: compiled ones, of one Python and of the stable ABI.
pub(crate) fn write_foreign_wheels(directory: &Path) {
    let library = SharedObject::new("libtorch_hip.so")
        .needs("libamdhip64.so.7")
        .calls("torch_answer", "hip_answer")
        .runpath("$ORIGIN")
        .build();
    let wheels = [
        ("torch", "2.9.0+rocm0.99.1.dev0", "cp312-cp312-linux_x86_64"),
        ("rocshmem4py", "0.1.0", "cp310-abi3-manylinux_2_28_x86_64"),
    ];
    fs_err::create_dir_all(directory).unwrap();
    for (name, version, tag) in wheels {
        let info = format!("{name}-{version}.dist-info");
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        let about =
            format!("Wheel-Version: 1.0\nGenerator: odd\nRoot-Is-Purelib: false\nTag: {tag}\n");
        let members = [
            (format!("{name}/__init__.py"), b"x = 1\n".to_vec()),
            (format!("{name}/lib/libtorch_hip.so"), library.clone()),
            (format!("{info}/METADATA"), metadata.into_bytes()),
            (format!("{info}/WHEEL"), about.into_bytes()),
            (format!("{info}/RECORD"), Vec::new()),
        ];
        let mut members = members.map(|(path, bytes)| (path, 0o100_644, bytes)).to_vec();
        record(&mut members);
        let path = directory.join(format!("{name}-{version}-{tag}.whl"));
        fs_err::write(path, zipped(&members)).unwrap();
    }
}
