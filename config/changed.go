package config

// Changed returns the fields, by their Go paths, in which two configurations differ.
func Changed(a, b Config) []string {
	var names []string
	for _, f := range fields {
		if f.of(&a).Interface() != f.of(&b).Interface() {
			names = append(names, f.name)
		}
	}
	return names
}
