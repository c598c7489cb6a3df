/* What Python loads: it needs the library of the framework, and the HIP runtime itself. */

int fw_answer(void);
int hip_answer(void);

int answer(void) { return fw_answer() + hip_answer(); }
