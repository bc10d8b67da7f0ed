package api

// Class is a resource class: the cpu and memory that a task of the class takes on its worker.
type Class struct {
	Name       string  `json:"name" doc:"NAMESPACE/NAME for the class of a namespace."`
	Namespace  *string `json:"namespace,omitempty" doc:"The namespace whose workflows alone can name the class. It is missing for a class that all namespaces share."`
	CPU        float64 `json:"cpu" doc:"Processor cores; 0: it takes none."`
	Memory     int64   `json:"memory" doc:"Bytes; 0: it takes none."`
	Builtin    bool    `json:"builtin" doc:"It comes with the program and means the same everywhere."`
	User       *string `json:"user" doc:"The user who set it last."`
	CreatedAt  *Time   `json:"created_at" format:"date-time"`
	ModifiedAt *Time   `json:"modified_at" format:"date-time"`
}

// ClassRequest is the definition of a resource class.
type ClassRequest struct {
	CPU    float64 `json:"cpu,omitempty" minimum:"0" maximum:"10000" doc:"Processor cores, in thousandths."`
	Memory int64   `json:"memory,omitempty" minimum:"0" maximum:"1125899906842624" doc:"Bytes."`
}
